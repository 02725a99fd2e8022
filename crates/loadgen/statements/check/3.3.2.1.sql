-- Each warehouse has been paid what its districts have been paid.
SELECT COUNT(*)
  FROM warehouse
  LEFT JOIN (SELECT d_w_id, SUM(d_ytd) AS ytd FROM district GROUP BY d_w_id) AS districts ON d_w_id = w_id
 WHERE (w_ytd <> ytd) IS NOT FALSE
