-- COUNT of a column makes the server read it.
SELECT COUNT(s_data) AS low_stock
  FROM stock
 WHERE s_w_id = :w_id AND s_quantity < :threshold
   AND s_i_id IN (SELECT ol_i_id
                    FROM district
                    JOIN order_line ON ol_w_id = d_w_id AND ol_d_id = d_id
                                   AND ol_o_id >= d_next_o_id - 20 AND ol_o_id < d_next_o_id
                   WHERE d_w_id = :w_id AND d_id = :d_id)
