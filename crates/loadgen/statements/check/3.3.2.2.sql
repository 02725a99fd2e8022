-- The next order's number of each district follows its last order, and its last new order if it has one.
SELECT COUNT(*)
  FROM district
  LEFT JOIN (SELECT o_w_id, o_d_id, MAX(o_id) AS o_id FROM oorder GROUP BY o_w_id, o_d_id) AS orders
         ON o_w_id = d_w_id AND o_d_id = d_id
  LEFT JOIN (SELECT no_w_id, no_d_id, MAX(no_o_id) AS no_o_id FROM new_order GROUP BY no_w_id, no_d_id) AS new_orders
         ON no_w_id = d_w_id AND no_d_id = d_id
 WHERE (d_next_o_id - 1 <> o_id) IS NOT FALSE OR d_next_o_id - 1 <> no_o_id
