-- title: Programs that serve language models
-- column framework: Program
-- column kind: Kind
-- column hardware: Runs on
-- column written_in: Written in
-- column release: Newest release found
-- column state: State
-- column source: Source
-- note: Releases and states as the source reports them; a dash: no numbered release was found. Look again before you decide.
SELECT f.framework AS framework, f.kind AS kind, f.hardware AS hardware, f.written_in AS written_in,
       coalesce(f.release || ' of ' || f.released, '–') AS release,
       f.state AS state, '[' || f.date || '](' || f.source || ')' AS source
FROM serving_frameworks AS f
ORDER BY CASE WHEN f.kind = 'orchestrator' THEN 1 ELSE 0 END, coalesce(f.released, '0') DESC, f.framework
