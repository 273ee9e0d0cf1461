"""The functions in PostgreSQL that check leases and epochs in the statement that writes."""

from __future__ import annotations

__all__ = ["FENCED", "FUNCTIONS", "LOST", "TOO_MANY"]

FENCED = "AR001"
"""SQLSTATE: the lease of the calling replica is past."""
LOST = "AR002"
"""SQLSTATE: another replica holds the session."""
TOO_MANY = "AR003"
"""SQLSTATE: the principal has too many sessions or jobs."""

# Rows are always locked in this order: the replica, sessions by id, jobs.
FUNCTIONS = """
CREATE FUNCTION timeline() RETURNS text LANGUAGE sql AS
$$ SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) $$;

CREATE FUNCTION fence(p_replica text, p_epoch bigint) RETURNS void
LANGUAGE plpgsql SET search_path = {schema} AS $$
BEGIN
    PERFORM 1 FROM replicas
        WHERE id = p_replica AND epoch = p_epoch AND until > clock_timestamp()
        AND timeline = timeline() FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the lease of replica % is past', p_replica USING ERRCODE = 'AR001';
    END IF;
END $$;

-- Stores a batch, and returns NULL; or returns the sessions that the replica no longer holds, and
-- stores nothing.
CREATE FUNCTION write_batch(
    p_replica text, p_epoch bigint, p_held text[], p_held_epochs bigint[],
    e_job text[], e_idx bigint[], e_count integer[],
    e_id bytea[], e_type bytea[], e_payload bytea[], e_needs bytea[],
    n_session text[], n_seq bigint[], n_job text[], n_idx bigint[], n_count integer[],
    s_id text[], s_floor bigint[], s_state bytea[],
    j_id text[], j_status text[], j_ended boolean[], j_state bytea[],
    w_session text[], w_job text[], w_next bigint[], w_first bigint[],
    f_session text[], f_floor bigint[],
    t_job text[], t_floor bigint[], g_session text[], g_job text[], r_job text[]
) RETURNS text[] LANGUAGE plpgsql SET search_path = {schema} AS $$
DECLARE
    lost text[];
BEGIN
    PERFORM fence(p_replica, p_epoch);
    IF cardinality(p_held) > 0 THEN
        PERFORM 1 FROM sessions WHERE id = ANY(p_held) ORDER BY id FOR SHARE;
        SELECT array_agg(h.id) INTO lost FROM unnest(p_held, p_held_epochs) AS h(id, epoch)
            WHERE NOT EXISTS (SELECT 1 FROM sessions AS s
                WHERE s.id = h.id AND s.epoch = h.epoch AND s.holder = p_replica);
        IF lost IS NOT NULL THEN
            RETURN lost;
        END IF;
    END IF;
    IF cardinality(s_id) > 0 THEN
        UPDATE sessions AS s SET state = u.state, floor = greatest(s.floor, u.floor)
            FROM unnest(s_id, s_floor, s_state) AS u(id, floor, state) WHERE s.id = u.id;
    END IF;
    IF cardinality(j_id) > 0 THEN
        UPDATE jobs AS j SET status = u.status, state = u.state,
            ended_at = CASE WHEN u.ended THEN coalesce(j.ended_at, clock_timestamp()) END
            FROM unnest(j_id, j_status, j_ended, j_state) AS u(id, status, ended, state)
            WHERE j.id = u.id AND j.ended_at IS NULL;
    END IF;
    IF cardinality(r_job) > 0 THEN
        UPDATE jobs SET status = 'running' WHERE id = ANY(r_job) AND status = 'pending';
    END IF;
    IF cardinality(w_session) > 0 THEN
        DELETE FROM watches AS w USING unnest(w_session, w_job, w_next) AS u(session, job, next)
            WHERE w.session_id = u.session AND w.job_id = u.job AND u.next IS NULL;
        INSERT INTO watches SELECT u.session, u.job, u.next, u.first
            FROM unnest(w_session, w_job, w_next, w_first) AS u(session, job, next, first)
            WHERE u.next IS NOT NULL
            ON CONFLICT (session_id, job_id) DO UPDATE
            SET next = excluded.next, first = excluded.first;
    END IF;
    IF cardinality(e_job) > 0 THEN
        INSERT INTO events SELECT * FROM unnest(
            e_job, e_idx, e_count, e_id, e_type, e_payload, e_needs) ON CONFLICT DO NOTHING;
    END IF;
    IF cardinality(n_session) > 0 THEN
        INSERT INTO numbers SELECT * FROM unnest(n_session, n_seq, n_job, n_idx, n_count)
            ON CONFLICT DO NOTHING;
        UPDATE sessions AS s SET last = greatest(s.last, u.last) FROM (
            SELECT session, max(seq + count - 1) AS last
            FROM unnest(n_session, n_seq, n_count) AS n(session, seq, count) GROUP BY session
        ) AS u WHERE s.id = u.session;
        UPDATE watches AS w SET next = greatest(w.next, u.next) FROM (
            SELECT session, job, max(idx + count) AS next
            FROM unnest(n_session, n_job, n_idx, n_count) AS n(session, job, idx, count)
            GROUP BY session, job
        ) AS u WHERE w.session_id = u.session AND w.job_id = u.job;
    END IF;
    IF cardinality(f_session) > 0 THEN
        UPDATE sessions AS s SET floor = greatest(s.floor, u.floor)
            FROM unnest(f_session, f_floor) AS u(id, floor) WHERE s.id = u.id;
        -- The numbers in the submitting session also say where a subscription begins.
        DELETE FROM numbers AS n USING unnest(f_session, f_floor) AS u(id, floor)
            WHERE n.session_id = u.id AND n.seq + n.count <= u.floor + 1
            AND NOT EXISTS (SELECT 1 FROM jobs AS j
                WHERE j.id = n.job_id AND j.owner_id = n.session_id AND NOT j.gone);
    END IF;
    IF cardinality(t_job) > 0 THEN
        DELETE FROM events AS e USING unnest(t_job, t_floor) AS u(id, floor)
            WHERE e.job_id = u.id AND e.idx + e.count <= u.floor
            AND NOT needed(e.job_id, e.idx, e.count);
    END IF;
    IF cardinality(g_session) > 0 THEN
        DELETE FROM watches WHERE session_id = ANY(g_session);
        DELETE FROM sessions WHERE id = ANY(g_session);
    END IF;
    IF cardinality(g_job) > 0 THEN
        UPDATE jobs SET gone = true WHERE id = ANY(g_job) AND ended_at IS NOT NULL;
    END IF;
    RETURN NULL;
END $$;

-- Whether a session may still be sent events of a run.
CREATE FUNCTION needed(p_job text, p_idx bigint, p_count integer) RETURNS boolean
LANGUAGE sql STABLE SET search_path = {schema} AS $$
    SELECT EXISTS (SELECT 1 FROM numbers AS n JOIN sessions AS s ON s.id = n.session_id
            WHERE n.job_id = p_job AND n.idx < p_idx + p_count AND n.idx + n.count > p_idx
            AND n.seq + n.count - 1 > s.floor)
        OR EXISTS (SELECT 1 FROM watches AS w
            WHERE w.job_id = p_job AND w.next < p_idx + p_count)
$$;

-- Registers a job and its key. Returns no row if the job is new, else the key's first submit.
CREATE FUNCTION accept_job(
    p_replica text, p_epoch bigint, p_session text, p_session_epoch bigint,
    p_id text, p_principal text, p_agent text, p_owner text, p_authorities text[],
    p_trace text, p_created timestamptz, p_state bytea, p_accepted bytea,
    p_key text, p_parameters bytea, p_window interval, p_most integer
) RETURNS TABLE (parameters bytea, accepted bytea, job_id text)
LANGUAGE plpgsql SET search_path = {schema} AS $$
#variable_conflict use_column
DECLARE
    open bigint;
BEGIN
    PERFORM fence(p_replica, p_epoch);
    IF p_session IS NOT NULL THEN
        PERFORM 1 FROM sessions
            WHERE id = p_session AND epoch = p_session_epoch AND holder = p_replica FOR SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'another replica holds session %', p_session USING ERRCODE = 'AR002';
        END IF;
    END IF;
    IF p_key IS NOT NULL THEN
        INSERT INTO keys AS k VALUES
            (p_principal, p_key, p_parameters, p_accepted, p_id, clock_timestamp())
            ON CONFLICT (principal, key) DO UPDATE SET parameters = excluded.parameters,
                accepted = excluded.accepted, job_id = excluded.job_id, at = excluded.at
            WHERE k.at < clock_timestamp() - p_window;
        IF NOT FOUND THEN
            UPDATE jobs SET authorities = authorities || p_owner
                WHERE id = (SELECT k.job_id FROM keys AS k
                    WHERE k.principal = p_principal AND k.key = p_key)
                AND NOT authorities @> ARRAY[p_owner];
            RETURN QUERY SELECT k.parameters, k.accepted, k.job_id FROM keys AS k
                WHERE k.principal = p_principal AND k.key = p_key;
            RETURN;
        END IF;
    END IF;
    SELECT count(*) INTO open FROM jobs WHERE principal = p_principal AND ended_at IS NULL;
    IF open + 64 >= p_most THEN  -- close to the limit: one submit of the principal at a time
        PERFORM pg_advisory_xact_lock(hashtextextended(p_principal, 7));
        SELECT count(*) INTO open FROM jobs WHERE principal = p_principal AND ended_at IS NULL;
        IF open >= p_most THEN
            RAISE EXCEPTION 'too many jobs' USING ERRCODE = 'AR003';
        END IF;
    END IF;
    INSERT INTO jobs (id, principal, agent, owner_id, authorities, runner, status, trace_id,
        created, state) VALUES (p_id, p_principal, p_agent, p_owner, p_authorities, p_replica,
        'pending', p_trace, p_created, p_state);
    INSERT INTO watches SELECT p_owner, p_id, 0, 0
        WHERE EXISTS (SELECT 1 FROM sessions WHERE id = p_owner);
END $$;

-- Deletes what no client can ask for any more.
CREATE FUNCTION sweep(p_retention interval, p_window interval) RETURNS void
LANGUAGE plpgsql SET search_path = {schema} AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('arcp sweep {schema}', 7)) THEN
        RETURN;
    END IF;
    WITH expired AS (
        DELETE FROM sessions AS s WHERE s.holder IS NULL AND s.expires_at < clock_timestamp()
            AND NOT EXISTS (SELECT 1 FROM jobs AS j
                WHERE j.owner_id = s.id AND j.principal = s.principal AND j.ended_at IS NULL)
            RETURNING s.id
    ) DELETE FROM watches AS w USING expired WHERE w.session_id = expired.id;
    UPDATE jobs SET gone = true
        WHERE NOT gone AND ended_at < clock_timestamp() - p_retention;
    DELETE FROM watches AS w USING jobs AS j WHERE j.id = w.job_id AND j.gone
        AND w.session_id <> j.owner_id;
    DELETE FROM events AS e USING jobs AS j
        WHERE j.id = e.job_id AND j.gone AND NOT needed(e.job_id, e.idx, e.count);
    WITH removed AS (
        DELETE FROM jobs AS j WHERE j.gone
            AND NOT EXISTS (SELECT 1 FROM events AS e WHERE e.job_id = j.id) RETURNING j.id
    ), unwatched AS (
        DELETE FROM watches AS w USING removed WHERE w.job_id = removed.id
    ) DELETE FROM numbers AS n USING removed WHERE n.job_id = removed.id;
    DELETE FROM keys WHERE at < clock_timestamp() - p_window;
END $$;
"""
