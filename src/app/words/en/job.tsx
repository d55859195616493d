/** Jobs, strategies and their settings. */
export const job = {};
