/** The lesson. */
export const lesson = {};
