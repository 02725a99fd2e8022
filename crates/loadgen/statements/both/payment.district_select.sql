SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip
  FROM district
 WHERE d_w_id = :w_id AND d_id = :d_id
