-- A line has a delivery date if and only if its order has a carrier.
SELECT COUNT(*)
  FROM order_line
  LEFT JOIN oorder ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
 WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)
