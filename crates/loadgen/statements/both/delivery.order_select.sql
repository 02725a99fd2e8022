SELECT o_c_id
  FROM oorder
 WHERE o_w_id = :w_id AND o_d_id = :d_id AND o_id = :o_id
