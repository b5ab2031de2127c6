-- title: Performance settings of an MI300X node
-- column setting: Setting
-- column place: Where
-- column value: Recommended
-- column reason: Why
-- column source: Source
-- note: Vendor, for MI300X, read on 22 November 2026, with reasons in our words. Measure each on your own job.
SELECT setting, place, value, reason, '[1](' || source || ')' AS source
FROM amd_settings
ORDER BY CASE place WHEN 'BIOS' THEN 1 WHEN 'kernel' THEN 2 ELSE 3 END, setting;
