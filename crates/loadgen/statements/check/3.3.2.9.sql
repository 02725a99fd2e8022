-- Each district has been paid what the history says.
SELECT COUNT(*)
  FROM district
  LEFT JOIN (SELECT h_w_id, h_d_id, SUM(h_amount) AS paid FROM history GROUP BY h_w_id, h_d_id) AS payments
         ON h_w_id = d_w_id AND h_d_id = d_id
 WHERE (d_ytd <> paid) IS NOT FALSE
