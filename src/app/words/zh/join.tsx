import type { Words } from '../en/index.ts';

export const join: Words['join'] = {
  watch: '只观看',
  watchTitle: '观看其他标签页训练；本标签页不参与计算',
  onlyWatches: '本标签页无法训练，但可以观看其他标签页训练。',
  openToWatch: '创建并观看',
  openToWatchTitle: '由你主持房间；本标签页不参与计算',
};
