/** Joining a room, and opening one. */
export const join = {};
