SELECT c_id
  FROM customer
 WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_last = :c_last
 ORDER BY c_first
