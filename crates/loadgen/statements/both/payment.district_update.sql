UPDATE district
   SET d_ytd = d_ytd + :amount
 WHERE d_w_id = :w_id AND d_id = :d_id
