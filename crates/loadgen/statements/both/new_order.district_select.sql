SELECT d_tax, d_next_o_id
  FROM district
 WHERE d_w_id = :w_id AND d_id = :d_id
   FOR UPDATE
