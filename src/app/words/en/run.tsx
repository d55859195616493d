/** A run: its numbers, ranks and result. */
export const run = {};
