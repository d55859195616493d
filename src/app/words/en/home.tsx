/** The front page. */
export const home = {};
