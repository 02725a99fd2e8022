-- The new orders of each district are numbered without gaps.
SELECT COUNT(*)
  FROM (SELECT no_w_id, no_d_id
          FROM new_order
         GROUP BY no_w_id, no_d_id
        HAVING MAX(no_o_id) - MIN(no_o_id) + 1 <> COUNT(*)) AS districts
