-- Neovim with the setup of compiler/docs/editors.md for earlier versions:
-- `nvim --headless --clean -S SETUP.lua -S neovim.lua PROGRAM`. It prints `ended well` if every
-- answer is as expected, and else why not.

local function wait(what, is_there)
  assert(vim.wait(60000, is_there, 20), what .. ": nothing came")
end

local function position(line, words)
  local text = vim.api.nvim_buf_get_lines(0, line - 1, line, true)[1]
  return { line, assert(text:find(words, 1, true), words .. " is not in " .. text) - 1 }
end

local function request(method, params)
  local answers = assert(vim.lsp.buf_request_sync(0, method, params, 60000))
  local _, answer = next(answers)
  assert(not answer.error, vim.inspect(answer))
  return answer.result
end

local function check()
  local file = vim.api.nvim_buf_get_name(0)
  wait("the server", function() return #vim.lsp.buf_get_clients(0) > 0 end)
  assert(vim.bo.filetype == "shardwise")
  local document = vim.lsp.util.make_text_document_params()

  -- The statement of a plan, once there is one.
  local lens
  wait("the plan", function()
    lens = request("textDocument/codeLens", { textDocument = document })
    return #lens > 0
  end)
  assert(lens[1].command.title:match("^step .* memory "), vim.inspect(lens))

  -- What is typed, and an error with its mark.
  local last = vim.api.nvim_buf_line_count(0)
  vim.api.nvim_buf_set_lines(0, last, last, true, { "output Missing" })
  wait("an error", function() return #vim.diagnostic.get(0) > 0 end)
  assert(vim.diagnostic.get(0)[1].lnum == last, vim.inspect(vim.diagnostic.get(0)))
  vim.cmd("undo")
  wait("no error", function() return #vim.diagnostic.get(0) == 0 end)

  -- At the cursor.
  vim.api.nvim_win_set_cursor(0, position(6, "Win"))
  local hover = request("textDocument/hover", vim.lsp.util.make_position_params())
  assert(hover.contents.value:match("on a device"), vim.inspect(hover))
  vim.lsp.buf.definition()
  wait("the definition", function() return vim.api.nvim_win_get_cursor(0)[1] == 5 end)
  vim.lsp.buf.rename("Wup")
  wait("the other name", function()
    return vim.api.nvim_buf_get_lines(0, 5, 6, true)[1]:match("Wup")
  end)

  -- Completion, as <C-x><C-o> asks for it.
  vim.api.nvim_buf_set_lines(0, 5, 6, true, { "H = gel" })
  vim.api.nvim_win_set_cursor(0, { 6, 7 })
  vim.bo.omnifunc = "v:lua.vim.lsp.omnifunc"
  local params = vim.lsp.util.make_position_params()
  params.position.character = 7
  local items = request("textDocument/completion", params)
  local labels = vim.tbl_map(function(item) return item.label end, items.items or items)
  assert(vim.tbl_contains(labels, "gelu"), vim.inspect(labels))
  vim.api.nvim_buf_set_lines(0, 5, 6, true, { "H =   gelu(In *D Wup)" })
  vim.lsp.buf.formatting_sync(nil, 60000)
  assert(vim.api.nvim_buf_get_lines(0, 5, 6, true)[1] == "H = gelu(In *D Wup)")
  assert(file:match("%.shard$"))
end

local is_well, why = pcall(check)
io.stdout:write(is_well and "ended well\n" or tostring(why) .. "\n")
vim.cmd("qa!")
