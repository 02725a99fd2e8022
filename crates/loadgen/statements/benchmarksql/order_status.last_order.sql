SELECT o_id, o_entry_d, o_carrier_id
  FROM oorder
 WHERE o_w_id = :c_w_id AND o_d_id = :c_d_id AND o_c_id = :c_id
   AND o_id = (SELECT MAX(o_id)
                 FROM oorder
                WHERE o_w_id = :c_w_id AND o_d_id = :c_d_id AND o_c_id = :c_id)
