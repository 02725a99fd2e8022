-- Seven statements of the kinds that iQIYI's publication times: lists and joins over hosts, groups and plugins.
SELECT h.id, h.hostname, h.uuid, g.grp_en_name FROM host h LEFT JOIN host_group hg ON h.id = hg.host_id LEFT JOIN grp g ON hg.grp_id = g.id WHERE h.type = 0 AND h.host_status = 8;
SELECT hg.grp_id, hg.host_id, COALESCE(h.rootgrp, '') FROM host_group hg, host h, grp g WHERE hg.host_id = h.id AND hg.grp_id = g.id AND g.zone = 3;
SELECT h.id, p.plugin_id FROM host_plugin p JOIN host h ON p.host_id = h.id JOIN host_group hg ON hg.host_id = h.id WHERE h.agent_version <> '' AND h.uuid <> '' AND UNIX_TIMESTAMP(NOW()) - UNIX_TIMESTAMP(h.update_at) < 604800 AND p.plugin_id BETWEEN 7 AND 9;
SELECT uuid, hostname FROM host WHERE host_status = 3 AND uuid <> '' AND hostname <> '';
SELECT p.host_id, p.plugin_id, h.uuid, q.dir, p.target_version FROM host_plugin p LEFT JOIN plugin q ON p.plugin_id = q.id LEFT JOIN host h ON p.host_id = h.id WHERE h.uuid <> '' AND p.plugin_id BETWEEN 20 AND 24;
SELECT a.tpl_id, b.host_id FROM grp_tpl a INNER JOIN host_group b ON a.grp_id = b.grp_id;
SELECT uuid, host_status FROM host WHERE host_status IN (1, 2);
