/** The ring, the grid and their player. */
export const ring = {};
