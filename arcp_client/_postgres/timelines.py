"""The functions in PostgreSQL that decide whether sessions outlive the promotion of a standby."""

from __future__ import annotations

__all__ = ["TIMELINES"]

# A promotion begins a new timeline. Only what every commit of the old one waited for is known to be
# there: the promoted server must have been one of `standbys`, all of which had to confirm.
TIMELINES = """
ALTER TABLE timelines DROP COLUMN safe, ADD COLUMN standbys text[] NOT NULL DEFAULT '{}';

-- The servers, by cluster_name, that each commit waits for; none if it waits for any of several.
CREATE FUNCTION standbys(
    setting text DEFAULT current_setting('synchronous_standby_names')
) RETURNS text[] LANGUAGE plpgsql SET search_path = {schema} AS $$
DECLARE
    parts text[] := regexp_match(
        setting, '^\\s*(?:(?:first|any)\\s+)?(\\d+)\\s*\\((.*)\\)\\s*$', 'i');
    listed text := coalesce(parts[2], setting);
    names text[] := ARRAY(SELECT lower(btrim(name, ' "'))
        FROM unnest(string_to_array(listed, ',')) AS name WHERE btrim(name, ' "') <> '');
BEGIN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
        OR cardinality(names) > coalesce(parts[1]::integer, 1) OR '*' = ANY(names) THEN
        RETURN '{}';
    END IF;
    RETURN names;
END $$;

-- Notes the present timeline. The first call after a promotion moves replicas and sessions to the
-- new timeline, or leaves them on the old one, where no lease is renewed and no session resumed.
-- A new replica leaves the first call to one that knows what was stored, while there is one: false.
CREATE FUNCTION enter_timeline(is_new boolean) RETURNS boolean
LANGUAGE plpgsql SET search_path = {schema} AS $$
DECLARE
    present text := timeline();
    waited_for text[] := standbys();
    older timelines;
BEGIN
    IF EXISTS (SELECT 1 FROM timelines WHERE timeline = present AND standbys = waited_for) THEN
        RETURN true;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('arcp timeline {schema}', 7));
    IF NOT EXISTS (SELECT 1 FROM timelines WHERE timeline = present) THEN
        IF is_new AND EXISTS (SELECT 1 FROM replicas WHERE until > clock_timestamp()) THEN
            RETURN false;
        END IF;
        SELECT * INTO older FROM timelines ORDER BY timeline DESC LIMIT 1;
        IF lower(current_setting('cluster_name')) = ANY(older.standbys) THEN
            UPDATE replicas SET timeline = present WHERE timeline = older.timeline;
            UPDATE sessions SET timeline = present WHERE timeline = older.timeline;
        END IF;
    END IF;
    INSERT INTO timelines VALUES (present, waited_for)
        ON CONFLICT (timeline) DO UPDATE SET standbys = excluded.standbys;
    RETURN true;
END $$;

-- A replica whose last renewal or last number is missing after a promotion tells that the standby
-- was behind, whatever the settings promised: no lease and no session continues.
CREATE FUNCTION testify(
    p_replica text, p_epoch bigint, p_timeline text, p_until timestamptz,
    p_session text, p_last bigint
) RETURNS void LANGUAGE plpgsql SET search_path = {schema} AS $$
BEGIN
    IF p_timeline <> timeline() AND EXISTS (
        SELECT 1 FROM replicas AS r WHERE r.id = p_replica AND r.epoch = p_epoch AND (
            r.until < p_until OR EXISTS (SELECT 1 FROM sessions AS s
                WHERE s.id = p_session AND s.holder = p_replica AND s.last < p_last))) THEN
        UPDATE replicas SET timeline = '';
        UPDATE sessions SET timeline = '';
    END IF;
END $$;

-- Renews a lease; returns no row if it was past.
CREATE FUNCTION renew(
    p_replica text, p_epoch bigint, p_timeline text, p_until timestamptz,
    p_session text, p_last bigint, p_lease interval, p_agents text
) RETURNS TABLE (lease_until timestamptz, on_timeline text)
LANGUAGE plpgsql SET search_path = {schema} AS $$
BEGIN
    PERFORM testify(p_replica, p_epoch, p_timeline, p_until, p_session, p_last);
    PERFORM enter_timeline(false);
    RETURN QUERY UPDATE replicas AS r
        SET until = clock_timestamp() + p_lease, agents = p_agents
        WHERE r.id = p_replica AND r.epoch = p_epoch AND r.until > clock_timestamp()
        AND r.timeline = timeline() RETURNING r.until, r.timeline;
END $$;
"""
