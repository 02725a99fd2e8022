DELETE FROM new_order
 WHERE no_w_id = :w_id AND no_d_id = :d_id AND no_o_id = :o_id
