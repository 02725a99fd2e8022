-- An order has no carrier if and only if it is a new order.
SELECT COUNT(*)
  FROM oorder
  LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
 WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)
