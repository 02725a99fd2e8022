-- Each warehouse has been paid what the history says.
SELECT COUNT(*)
  FROM warehouse
  LEFT JOIN (SELECT h_w_id, SUM(h_amount) AS paid FROM history GROUP BY h_w_id) AS payments ON h_w_id = w_id
 WHERE (w_ytd <> paid) IS NOT FALSE
