-- title: Generations of high bandwidth memory
-- column generation: Generation
-- column pin_rate: Pin [Gbps] .1
-- column interface_bits: Interface of a stack [bit] .0
-- column stack_rate: Stack [GBps] .0
-- column stack_capacity: Largest stack [GiB] .0
-- column source: Source
-- note: Stack rate: derived, pin rate times interface width over eight bits a byte.
SELECT generation,
       pin_rate,
       interface_bits,
       pin_rate * interface_bits / 8.0 AS stack_rate,
       stack_capacity,
       '[1](' || source || ')' AS source
FROM hbm_generations
ORDER BY stack_rate, generation;
