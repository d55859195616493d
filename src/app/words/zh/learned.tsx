import type { Words } from '../en/index.ts';

export const learned: Words['learned'] = {};
