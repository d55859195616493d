import type { Words } from '../en/index.ts';

export const home: Words['home'] = {};
