-- title: Settings of an MI300X node that cost or gain speed
-- column setting: Setting
-- column place: Where
-- column value: Recommended
-- column reason: Why
-- column source: Source
-- note: Recommended: vendor, read on 22 November 2026, for MI300X; the reasons in our words. Measure each on your own job.
SELECT setting, place, value, reason, '[1](' || source || ')' AS source
FROM amd_settings
ORDER BY CASE place WHEN 'BIOS' THEN 1 WHEN 'kernel' THEN 2 ELSE 3 END, setting;
