-- The orders of each district have as many lines as they say.
SELECT COUNT(*)
  FROM (SELECT o_w_id, o_d_id, SUM(o_ol_cnt) AS said FROM oorder GROUP BY o_w_id, o_d_id) AS orders
  LEFT JOIN (SELECT ol_w_id, ol_d_id, COUNT(*) AS counted FROM order_line GROUP BY ol_w_id, ol_d_id) AS order_lines
         ON ol_w_id = o_w_id AND ol_d_id = o_d_id
 WHERE (said <> counted) IS NOT FALSE
