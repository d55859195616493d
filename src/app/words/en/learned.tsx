/** What the model has learned. */
export const learned = {};
