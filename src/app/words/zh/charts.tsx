import type { Words } from '../en/index.ts';

export const charts: Words['charts'] = {};
