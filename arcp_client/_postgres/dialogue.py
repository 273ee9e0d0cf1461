"""The tables and functions in PostgreSQL for questions of agents and messages to running jobs.

The replica that runs a job decides about its questions and messages, and stores each decision
together with its event. Answers and messages that other replicas have received wait in rows until
this replica reads them.
"""

from __future__ import annotations

__all__ = ["DIALOGUE"]

# ``questions.state`` never changes; the columns beside it have what does. ``runner`` is the replica
# whose agent waits: only it may close the question. Without one, the first transaction does.
DIALOGUE = """
CREATE TABLE questions (
    id text PRIMARY KEY, number bigint GENERATED ALWAYS AS IDENTITY, changed xid8 NOT NULL,
    principal text NOT NULL, agent text NOT NULL, work text NOT NULL, key text NOT NULL,
    durable boolean NOT NULL, runner text, status text NOT NULL, job_ids text[] NOT NULL,
    paused boolean NOT NULL DEFAULT false, expires_at timestamptz NOT NULL, fallback bytea,
    value bytea, answered_by text NOT NULL DEFAULT '', client text NOT NULL DEFAULT '',
    answer_key text, closed_at timestamptz, state bytea NOT NULL
);
CREATE UNIQUE INDEX questions_of_work ON questions (principal, agent, work, key)
    WHERE status IN ('asked', 'open', 'answered', 'defaulted');
CREATE INDEX questions_open ON questions (number) WHERE status = 'open';
CREATE INDEX questions_open_of ON questions (principal, number) WHERE status IN ('asked', 'open');
CREATE INDEX questions_left ON questions (expires_at) WHERE status = 'open' AND runner IS NULL;
CREATE INDEX questions_run ON questions (runner) WHERE status IN ('asked', 'open');
CREATE INDEX questions_changed ON questions (changed);
CREATE INDEX questions_closed ON questions (closed_at) WHERE closed_at IS NOT NULL;
CREATE TABLE answers (
    id text PRIMARY KEY, question_id text NOT NULL REFERENCES questions ON DELETE CASCADE,
    number bigint GENERATED ALWAYS AS IDENTITY, at timestamptz NOT NULL DEFAULT clock_timestamp(),
    job_id text NOT NULL, by text NOT NULL, client text NOT NULL, key text NOT NULL,
    value bytea NOT NULL, refusal text
);
CREATE INDEX answers_of ON answers (question_id);
CREATE INDEX answers_at ON answers (at);
CREATE SEQUENCE message_numbers;
CREATE TABLE messages (
    job_id text NOT NULL REFERENCES jobs ON DELETE CASCADE, message_id text NOT NULL,
    number bigint NOT NULL DEFAULT nextval('message_numbers'), state text NOT NULL,
    print bytea NOT NULL, offer bytea, refusal text, PRIMARY KEY (job_id, message_id)
);
CREATE INDEX messages_offered ON messages (job_id, number) WHERE state = 'offered';

-- Returns the question of the same work, if it is open or has a value; its runner is the calling
-- replica if there was none. Without a row, the question is new, and opens with its event.
CREATE FUNCTION ask_question(
    p_replica text, p_epoch bigint, p_id text, p_principal text, p_agent text, p_work text,
    p_key text, p_durable boolean, p_job text, p_expires timestamptz, p_fallback bytea,
    p_state bytea, p_most integer
) RETURNS SETOF questions LANGUAGE plpgsql SET search_path = {schema} AS $$
DECLARE
    known questions;
BEGIN
    PERFORM fence(p_replica, p_epoch);
    LOOP
        SELECT * INTO known FROM questions AS q
            WHERE q.principal = p_principal AND q.agent = p_agent AND q.work = p_work
            AND q.key = p_key AND q.status IN ('asked', 'open', 'answered', 'defaulted')
            FOR UPDATE;
        IF known.id IS NOT NULL THEN
            IF known.runner IS NULL AND known.status = 'open'
                    AND known.expires_at <= clock_timestamp() THEN
                PERFORM expire_questions(known.id);
                CONTINUE;
            END IF;
            UPDATE questions AS q SET changed = pg_current_xact_id(),
                runner = CASE WHEN status IN ('asked', 'open') THEN coalesce(runner, p_replica) END,
                job_ids = (array_remove(job_ids, p_job) || p_job)
                    [greatest(cardinality(job_ids) - 14, 1):]
                WHERE q.id = known.id RETURNING * INTO known;
            RETURN NEXT known;
            RETURN;
        END IF;
        PERFORM pg_advisory_xact_lock(hashtextextended(p_principal, 8));
        IF (SELECT count(*) FROM questions AS q WHERE q.principal = p_principal
                AND q.status IN ('asked', 'open')) >= p_most THEN
            RAISE EXCEPTION 'too many questions' USING ERRCODE = 'AR003';
        END IF;
        INSERT INTO questions (id, changed, principal, agent, work, key, durable, runner, status,
            job_ids, expires_at, fallback, state) VALUES (p_id, pg_current_xact_id(), p_principal,
            p_agent, p_work, p_key, p_durable, p_replica, 'asked', ARRAY[p_job], p_expires,
            p_fallback, p_state) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN;
        END IF;
    END LOOP;
END $$;

-- Closes overdue questions for which no agent waits: one, or all.
CREATE FUNCTION expire_questions(p_id text) RETURNS void
LANGUAGE sql SET search_path = {schema} AS $$
    UPDATE questions SET value = fallback, closed_at = clock_timestamp(),
        status = CASE WHEN fallback IS NULL THEN 'expired' ELSE 'defaulted' END,
        changed = pg_current_xact_id()
        WHERE status = 'open' AND runner IS NULL AND expires_at <= clock_timestamp()
        AND id = coalesce(p_id, id)
$$;

-- Stores what the replica has decided, in the transaction that stores its events.
CREATE FUNCTION write_dialogue(
    p_replica text, q_id text[], q_status text[], q_paused boolean[], q_value bytea[],
    q_by text[], q_client text[], q_key text[], q_closed timestamptz[],
    m_job text[], m_id text[], m_state text[], m_print bytea[]
) RETURNS void LANGUAGE plpgsql SET search_path = {schema} AS $$
BEGIN
    UPDATE questions AS q SET status = u.status, paused = u.paused, value = u.value,
        answered_by = u.by, client = u.client, answer_key = u.key, closed_at = u.closed,
        runner = CASE WHEN u.status = 'open' THEN q.runner END, changed = pg_current_xact_id()
        FROM unnest(q_id, q_status, q_paused, q_value, q_by, q_client, q_key, q_closed)
            AS u(id, status, paused, value, by, client, key, closed)
        WHERE q.id = u.id AND q.runner = p_replica AND q.status IN ('asked', 'open');
    DELETE FROM answers AS a USING unnest(q_id, q_status) AS u(id, status)
        WHERE a.question_id = u.id AND u.status <> 'open';
    INSERT INTO messages AS m (job_id, message_id, state, print)
        SELECT * FROM unnest(m_job, m_id, m_state, m_print)
        ON CONFLICT (job_id, message_id) DO UPDATE SET state = excluded.state, offer = NULL,
            refusal = NULL, number = CASE WHEN m.state IN ('offered', 'refused')
                THEN excluded.number ELSE m.number END;
END $$;

-- Answers a question for which no agent waits.
CREATE FUNCTION settle_question(
    p_id text, p_value bytea, p_by text, p_client text, p_key text
) RETURNS void LANGUAGE sql SET search_path = {schema} AS $$
    SELECT expire_questions(p_id);
    UPDATE questions SET status = 'answered', value = p_value, answered_by = p_by,
        client = p_client, answer_key = p_key, closed_at = clock_timestamp(),
        changed = pg_current_xact_id()
        WHERE id = p_id AND status = 'open' AND runner IS NULL
$$;

-- Lets an answer wait for the replica whose agent waits; false if too many do.
CREATE FUNCTION offer_answer(
    p_id text, p_question text, p_job text, p_by text, p_client text, p_key text, p_value bytea,
    p_most integer
) RETURNS boolean LANGUAGE plpgsql SET search_path = {schema} AS $$
BEGIN
    PERFORM 1 FROM questions WHERE id = p_question AND status = 'open' FOR SHARE;
    IF NOT FOUND THEN
        RETURN true;  -- it was closed meanwhile, which the caller reads next
    END IF;
    IF (SELECT count(*) FROM answers WHERE question_id = p_question) >= p_most THEN
        RETURN false;
    END IF;
    INSERT INTO answers (id, question_id, job_id, by, client, key, value)
        VALUES (p_id, p_question, p_job, p_by, p_client, p_key, p_value);
    RETURN true;
END $$;

-- Lets a message wait for the replica that runs its job, if it is new. Returns its row, with the
-- state 'ended' or 'full' if it cannot wait.
CREATE FUNCTION offer_message(
    p_job text, p_id text, p_print bytea, p_offer bytea, p_most integer
) RETURNS TABLE (state text, print bytea, refusal text)
LANGUAGE plpgsql SET search_path = {schema} AS $$
#variable_conflict use_column
BEGIN
    PERFORM 1 FROM jobs WHERE id = p_job AND ended_at IS NULL FOR KEY SHARE;
    IF FOUND THEN
        UPDATE messages SET state = 'offered', offer = p_offer, refusal = NULL
            WHERE job_id = p_job AND message_id = p_id AND state = 'refused' AND print = p_print;
        IF NOT EXISTS (SELECT 1 FROM messages WHERE job_id = p_job AND message_id = p_id) THEN
            IF (SELECT count(*) FROM messages WHERE job_id = p_job AND state = 'offered')
                    >= p_most THEN
                RETURN QUERY SELECT 'full', p_print, NULL::text;
                RETURN;
            END IF;
            INSERT INTO messages (job_id, message_id, state, print, offer)
                VALUES (p_job, p_id, 'offered', p_print, p_offer) ON CONFLICT DO NOTHING;
        END IF;
    END IF;
    RETURN QUERY SELECT m.state, m.print, m.refusal FROM messages AS m
        WHERE m.job_id = p_job AND m.message_id = p_id;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'ended', p_print, NULL::text;
    END IF;
END $$;

-- Ends the questions and messages of a replica that is gone, of which these jobs have ended now.
-- Returns the messages that are returned, and the questions that are withdrawn, by job.
CREATE FUNCTION end_dialogue(p_replica text, p_jobs text[])
RETURNS TABLE (job_id text, kind text, id text) LANGUAGE plpgsql SET search_path = {schema} AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM questions
        WHERE runner = p_replica AND status = 'asked' AND cardinality(job_ids) = 1;
    UPDATE questions SET runner = NULL, status = 'open', changed = pg_current_xact_id()
        WHERE runner = p_replica AND status IN ('asked', 'open') AND durable;
    RETURN QUERY WITH left_over AS (
        UPDATE messages AS m SET state = 'returned'
            WHERE m.job_id = ANY(p_jobs) AND m.state = 'queued' RETURNING m.*
    ) SELECT l.job_id, 'returned', l.message_id FROM left_over AS l ORDER BY l.number;
    RETURN QUERY WITH withdrawn AS (
        UPDATE questions AS q SET runner = NULL, status = 'withdrawn',
            closed_at = clock_timestamp(), changed = pg_current_xact_id()
            WHERE q.runner = p_replica AND q.status = 'open' RETURNING q.*
    ) SELECT w.job_ids[cardinality(w.job_ids)], 'withdrawn', w.id FROM withdrawn AS w
        ORDER BY w.number;
END $$;

-- Deletes closed questions: old ones, and if there are too many, the oldest of the principals with
-- the most.
CREATE FUNCTION sweep_dialogue(p_window interval, p_most integer, p_bytes bigint) RETURNS void
LANGUAGE plpgsql SET search_path = {schema} AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('arcp sweep dialogue {schema}', 7)) THEN
        RETURN;
    END IF;
    DELETE FROM answers WHERE at < clock_timestamp() - interval '10 minutes';
    DELETE FROM questions WHERE closed_at < clock_timestamp() - p_window;
    DELETE FROM questions AS q USING (
        SELECT id, row_number() OVER ranks AS place,
            sum(length(state) + coalesce(length(value), 0) + 256) OVER ranks AS bytes
        FROM (
            SELECT *, row_number() OVER (PARTITION BY principal ORDER BY closed_at DESC) AS nth
            FROM questions WHERE closed_at IS NOT NULL
        ) AS closed WINDOW ranks AS (ORDER BY nth, id)
    ) AS ranked WHERE q.id = ranked.id AND (place > p_most OR bytes > p_bytes);
END $$;
"""
