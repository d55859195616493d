/** A room before its run. */
export const lobby = {};
