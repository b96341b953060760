-- Write down that a release of the project runs here, once: at the start of its first worker.
-- Params:  version text
-- Returns: nothing
-- Locks:   that row, and no other worker waits for it longer than a statement
-- Index:   primary key
INSERT INTO jobqueue_release (version) VALUES (%(version)s) ON CONFLICT (version) DO NOTHING
