-- title: Records of this book
-- column tool: Tool
-- column method: Method .0
-- column profile: Profile
-- column hardware: Hardware
-- column nodes: Nodes .0
-- column ranks: Ranks .0
-- column date: Date
-- column ended: Ended
-- note: The newest whole record of each tool, profile and kind of machine.
SELECT tool, method, profile, hardware, nodes, ranks, date, ended
FROM records
WHERE newest AND complete
ORDER BY tool, profile, hardware, date, record
