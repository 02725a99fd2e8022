-- The first row of hundreds.
SELECT no_o_id
  FROM new_order
 WHERE no_w_id = :w_id AND no_d_id = :d_id
 ORDER BY no_o_id
