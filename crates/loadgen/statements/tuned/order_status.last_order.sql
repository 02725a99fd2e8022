-- Backwards through the district's orders to the first of this customer.
SELECT o_id, o_entry_d, o_carrier_id
  FROM oorder
 WHERE o_w_id = :c_w_id AND o_d_id = :c_d_id AND o_c_id = :c_id
 ORDER BY o_w_id DESC, o_d_id DESC, o_id DESC
 LIMIT 1
