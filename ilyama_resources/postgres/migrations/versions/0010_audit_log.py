"""Who changed what: a log that the database itself lets nobody change, by month."""

from alembic import op

revision = "0010"
down_revision = "0009"

_TABLE = """
CREATE TABLE audit_log (
  audit_id bigint NOT NULL DEFAULT nextval('audit_log_number'),
  at timestamptz NOT NULL,
  actor text NOT NULL,
  verb text NOT NULL,
  resource text NOT NULL,
  old jsonb,
  new jsonb,
  PRIMARY KEY (audit_id, at)
) PARTITION BY RANGE (at)
"""
_REFUSAL = """
CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the audit log is append-only: % of % is refused', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'insufficient_privilege';
END $$
"""
_OF_ROWS = """
CREATE TRIGGER audit_rows_stay BEFORE UPDATE OR DELETE ON audit_log
  FOR EACH ROW EXECUTE FUNCTION refuse_audit_change()
"""
_OF_THE_WHOLE = """
CREATE TRIGGER audit_log_stays BEFORE TRUNCATE ON audit_log
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()
"""
# Triggers for rows come with a partition; the one against TRUNCATE has to be made for each.
_MONTH = """
CREATE FUNCTION ensure_audit_month(moment timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  first timestamp := date_trunc('month', moment AT TIME ZONE 'UTC');
  name text := 'audit_log_' || to_char(first, 'YYYY_MM');
BEGIN
  IF to_regclass(name) IS NOT NULL THEN
    RETURN;
  END IF;
  PERFORM pg_advisory_xact_lock(hashtext('ilyama audit months'));
  IF to_regclass(name) IS NULL THEN
    EXECUTE format(
      'CREATE TABLE %I PARTITION OF audit_log FOR VALUES FROM (%L) TO (%L)',
      name, first AT TIME ZONE 'UTC', (first + interval '1 month') AT TIME ZONE 'UTC');
    EXECUTE format(
      'CREATE TRIGGER audit_log_stays BEFORE TRUNCATE ON %I '
      'FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()', name);
  END IF;
END $$
"""


def upgrade() -> None:
    """Make the log, what guards it, and what makes its months."""
    op.execute("CREATE SEQUENCE audit_log_number")
    op.execute(_TABLE)
    op.execute("CREATE INDEX audit_log_by_resource ON audit_log (resource, audit_id)")
    for statement in (_REFUSAL, _OF_ROWS, _OF_THE_WHOLE, _MONTH):
        op.execute(statement)


def downgrade() -> None:
    """Drop all of it."""
    op.execute("DROP TABLE audit_log")
    op.execute("DROP SEQUENCE audit_log_number")
    op.execute("DROP FUNCTION ensure_audit_month(timestamptz)")
    op.execute("DROP FUNCTION refuse_audit_change()")
