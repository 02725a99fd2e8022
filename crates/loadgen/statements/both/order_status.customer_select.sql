SELECT c_first, c_middle, c_last, c_balance
  FROM customer
 WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_id = :c_id
