/** Joining a room, and opening one. */
export const join = {
  watch: 'Just watch',
  watchTitle: 'See what the others train; this tab computes nothing',
  onlyWatches: 'This tab cannot train, but it can watch the others.',
  openToWatch: 'Open it to watch',
  openToWatchTitle: 'You lead the room; this tab computes nothing',
};
