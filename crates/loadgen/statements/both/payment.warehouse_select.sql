SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip
  FROM warehouse
 WHERE w_id = :w_id
