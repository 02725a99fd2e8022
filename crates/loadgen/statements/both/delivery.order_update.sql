UPDATE oorder
   SET o_carrier_id = :carrier_id
 WHERE o_w_id = :w_id AND o_d_id = :d_id AND o_id = :o_id
