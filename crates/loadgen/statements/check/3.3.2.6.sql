-- Each order has as many lines as it says.
SELECT COUNT(*)
  FROM oorder
  LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, COUNT(*) AS counted
               FROM order_line
              GROUP BY ol_w_id, ol_d_id, ol_o_id) AS order_lines
         ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
 WHERE (o_ol_cnt <> counted) IS NOT FALSE
