import type { Words } from '../en/index.ts';

export const lesson: Words['lesson'] = {};
