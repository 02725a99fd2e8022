-- Hosts, the groups that they are in, and the plugins that they run: for studies/tier_compare.py, which puts the number of hosts for @HOSTS@.
SET cte_max_recursion_depth = 100000000;
CREATE TABLE host (
  id INT PRIMARY KEY, hostname VARCHAR(40) NOT NULL, uuid CHAR(32) NOT NULL, type TINYINT NOT NULL, host_status TINYINT NOT NULL,
  agent_version VARCHAR(12) NOT NULL, update_at DATETIME NOT NULL, rootgrp VARCHAR(20), facts CHAR(240) NOT NULL
);
CREATE TABLE grp (id INT PRIMARY KEY, grp_en_name VARCHAR(40) NOT NULL, zone INT NOT NULL, KEY (zone));
CREATE TABLE host_group (id INT PRIMARY KEY, host_id INT NOT NULL, grp_id INT NOT NULL, KEY (host_id), KEY (grp_id));
CREATE TABLE plugin (id INT PRIMARY KEY, dir VARCHAR(60) NOT NULL);
CREATE TABLE host_plugin (
  id INT PRIMARY KEY, host_id INT NOT NULL, plugin_id INT NOT NULL, target_version VARCHAR(12) NOT NULL, settings CHAR(180) NOT NULL, KEY (plugin_id)
);
CREATE TABLE grp_tpl (grp_id INT NOT NULL, tpl_id INT NOT NULL, PRIMARY KEY (grp_id, tpl_id));

INSERT INTO host WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < @HOSTS@)
  SELECT i, CONCAT('host-', i, '.example'), LEFT(SHA2(i, 256), 32), i % 4, i % 40, CONCAT('2.', i % 9), NOW() - INTERVAL i % 30 DAY, IF(i % 3, CONCAT('root', i % 50), NULL), SHA2(i, 512) FROM n;
INSERT INTO grp WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) SELECT i, CONCAT('group-', i), i % 200 FROM n;
INSERT INTO host_group SELECT id, 1 + CRC32(id) % @HOSTS@, 1 + CRC32(CONCAT('g', id)) % 2000 FROM host;
INSERT INTO plugin WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) SELECT i, CONCAT('/opt/plugins/', i) FROM n;
INSERT INTO host_plugin SELECT id, 1 + CRC32(CONCAT('p', id)) % @HOSTS@, 1 + CRC32(CONCAT('q', id)) % 200, CONCAT('1.', id % 20), SHA2(id, 384) FROM host WHERE id % 2 = 0;
INSERT INTO grp_tpl SELECT id, id % 7 FROM grp WHERE id % 20 = 0;
