/** Vite gives the address of the file that it has put into the page's folder. */
declare module '*.wasm?url' {
  const url: string;
  export default url;
}
