-- title: Records of this book
-- column tool: Tool
-- column method: Method .0
-- column profile: Profile
-- column hardware: Hardware
-- column nodes: Nodes .0
-- column ranks: Ranks .0
-- column date: Date
-- column ended: Ended
-- note: The newest whole record of each tool, command and kind of machine, without demo runs.
SELECT tool, method, profile, hardware, nodes, ranks, date, ended
FROM records
WHERE newest AND complete AND profile NOT IN ('toy', 'demo')
ORDER BY tool, profile, hardware, date, record
