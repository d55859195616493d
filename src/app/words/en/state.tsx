/** What state a tab is in, and why. */
export const state = {};
