/** Curves and timelines. */
export const charts = {};
