-- The public record of a personal workspace's key: its check, its generation, and up to where an earlier
-- generation counts. The key itself is on its owner's machines alone.

ALTER TABLE hub.workspace ADD COLUMN key_record jsonb;
